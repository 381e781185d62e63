#include "corpus/clean/common_words.h"

#include <array>

namespace cairn::corpus {

std::span<const CommonWords> common_words() {
  static constexpr std::array<CommonWords, most_languages> languages{{
      {"ar",
       "في من على إلى أن هذا التي الذي عن مع كان هذه ما لا بين كل أو قد "
       "لم بعد ذلك هو هي كما حيث إن عند ثم يجب غير يمكن حتى هناك"},
      {"bg",
       "на и да се не за от с това са като по той до или но ще което тя "
       "беше към при този много може тези със във след която които"},
      {"ca",
       "de la i el que a les en un per una amb els del és al no es com "
       "més ha aquest però són va aquesta també seva o dels quan molt"},
      {"cs",
       "a se v na je že to s z do o i jako pro by ale za ve který k po "
       "jsem jsou které být bylo tak co si nebo když podle jeho už není "
       "musí tento této"},
      {"da",
       "og i at det er en til af på for med de ikke der den som et har "
       "var han jeg vi fra kan om sig men ved blev så eller skal hvor "
       "efter også du denne dette"},
      {"de",
       "der die und in den von zu das mit sich des auf für ist im dem "
       "nicht ein eine als auch es an werden aus er hat dass sie nach "
       "wird bei einer um am sind noch wie einem über so zum war haben "
       "nur oder aber vor zur bis mehr durch man dann kann diese dieser "
       "muss wenn wir ich sein einen eines"},
      {"en",
       "the of and to in a is that for it as was with be by on not he "
       "his but at are this have from or had an they which one you were "
       "all her she there would their we him been has when who will no "
       "more if out so up said what its about than into them can only "
       "other time could do my your me these may should because very "
       "some our any how most after before also where does just those "
       "i like then over such between did must us being now even while "
       "through each both under here against"},
      {"es",
       "de la que el en y a los se del las un por con no una su para es "
       "al lo como más o pero sus le ha me si sin sobre este ya entre "
       "cuando todo esta ser son dos también fue había era muy hasta "
       "desde está mi porque qué sólo han yo hay vez puede todos así "
       "nos ni parte tiene él donde"},
      {"fa",
       "و در به از که این را با است برای آن یک خود تا کرد بر هم نیز "
       "گفت می شود ما اما باید هر او ها شده یا دیگر همه چه نمی کند"},
      {"fi",
       "ja on ei se että oli hän en joka mutta ovat kun olen niin kuin "
       "myös tai jos vain ole olla sen mitä siitä hänen tämä sitä voi "
       "mukaan ollut sekä vielä nyt kanssa pitää tämän joita"},
      {"fr",
       "de la le et les des en un du une que est pour qui dans a par "
       "plus pas au sur ne se ce il sont la avec ou son cette aux comme "
       "nous mais on sa été elle ces ont était leur être je fait tout "
       "vous deux même si sans peut ils y bien lui donc où très encore "
       "doit cet votre"},
      {"hr",
       "je i u se na da su za od s o kao što nije koji a ili biti ne "
       "bio ali sve iz samo po bi više kako već koja može do još treba "
       "ako mora ovaj ova"},
      {"hu",
       "a az és hogy nem is egy volt meg ez csak már de ha mint el még "
       "azt vagy kell lehet ki sem van fel után minden között pedig "
       "lesz mert ezt amely olyan több"},
      {"id",
       "yang dan di ini itu dengan untuk dari dalam tidak pada akan "
       "adalah ke juga oleh sebagai telah dapat atau bisa ada karena "
       "saya kami tersebut harus anda lebih mereka bahwa"},
      {"it",
       "di e che la il un a per è in una sono non i con si da le del "
       "come più della al dei nel alla lo ma gli ha questo se o anche "
       "su delle ci nella essere loro dal suo stato questa sua molto "
       "mi quando ho era tutto fatto deve perché tra degli solo"},
      {"nl",
       "de het een van en in is dat op te zijn met voor niet aan er om "
       "ook als dan maar bij of uit nog worden door naar heeft tot ze "
       "hij was over deze wordt kan hebben geen meer ik zo wat je dit "
       "al moet die haar werd"},
      {"no",
       "og i det er en til på som for med av at de ikke den har om et "
       "var jeg han vi fra kan så seg men skal ble etter eller hadde "
       "også mot være nå bare ved må dette denne hva"},
      {"pl",
       "w i na z się nie do to że jest o od za jak po przez dla co ale "
       "tym czy tak jego był są lub może oraz już tylko ich być ze ma "
       "który która które przy musi ten ta"},
      {"pt",
       "de a o que e do da em um para é com não uma os no se na por "
       "mais as dos como mas foi ao ele das tem à seu sua ou ser "
       "quando muito há nos já está eu também só pelo pela até isso "
       "ela entre era depois sem mesmo aos ter seus nas me esse deve"},
      {"ro",
       "de și în a la cu pe nu să care o un că este din pentru mai ce "
       "au se fi ca sunt dar prin lui sau după fost sa poate trebuie "
       "cel acest această al ale"},
      {"ru",
       "и в не на что с по это как а его к но они из у за от же для "
       "так бы вы мы он она было были был или только быть есть если "
       "уже когда еще может до при также все чтобы где этот"},
      {"sk",
       "a sa v na je že to s z do o aj ako pre by ale za vo ktorý k po "
       "som sú ktoré byť bolo tak čo si alebo keď podľa jeho už nie "
       "musí tento táto"},
      {"sv",
       "och i att det som en på är av för med till den har de inte om "
       "ett han men var jag sig från vi så kan när år eller under vid "
       "också efter skulle där ska måste denna detta får"},
      {"tr",
       "ve bir bu da de için ile çok olarak daha gibi ne en kadar sonra "
       "olan var o ama ya veya her ben değil mi şey olduğu ise yok "
       "kendi göre tüm sadece"},
      {"uk",
       "і в не на що з та як до це його у за але від для так ми він "
       "вона було бути або тільки є якщо вже коли ще може при також "
       "всі щоб цей які який має"},
      {"vi",
       "và của là có không được trong cho một với các những người này "
       "đã để khi đến từ cũng như ở về ra thì vào nhưng đó phải hay "
       "nhiều sẽ bạn"},
      {"ur",
       "کے میں کی ہے اور سے کا کو ہیں نے یہ کہ اس پر ہو ایک بھی تھا وہ "
       "گیا لئے کر تو نہیں تھے"},
  }};
  return languages;
}

} // namespace cairn::corpus
